"""What measures and tries netgang and is not installed: benches, the simulator, the test bed."""
