"""Memory that a process has allocated and may allocate."""
