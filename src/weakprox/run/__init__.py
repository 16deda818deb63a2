"""One run of a method: loop, evaluation, escalation, state and choice of the method."""
