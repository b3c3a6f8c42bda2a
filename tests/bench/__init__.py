"""What the benchmarks compute, without a control plane."""
