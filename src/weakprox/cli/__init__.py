"""The command line: parses, calls the library, prints; no mathematics."""
