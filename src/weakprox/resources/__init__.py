"""Memory that a process has taken and may take."""
