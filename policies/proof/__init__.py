"""Proof: intervals, the non-inferiority gate, sequences and sensitivity."""
