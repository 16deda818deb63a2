"""Reading and writing matrices as files: data only, nothing is ever executed."""
