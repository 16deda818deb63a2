"""Lower bounds on the optimal value, and the evidence for them."""
