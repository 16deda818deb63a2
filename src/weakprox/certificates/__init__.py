"""Lower bounds on the optimum, and what they rest on."""
