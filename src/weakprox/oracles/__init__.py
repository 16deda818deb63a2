"""Oracles: gradients, the theorems' parameters, certificates, and the metering of all."""
