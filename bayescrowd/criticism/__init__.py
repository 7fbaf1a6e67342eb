"""Criticism of a result: did it converge, what is identified, where does it not fit."""
