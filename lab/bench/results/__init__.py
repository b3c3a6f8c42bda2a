"""Records of benchmarks, and the pages made from them."""
