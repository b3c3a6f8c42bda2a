"""What netgang's side of the probe costs, and what unmeasured pairs cost the choice of nodes."""
