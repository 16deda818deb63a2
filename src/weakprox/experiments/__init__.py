"""The tables and figures of the paper, each a function that returns its numbers."""
