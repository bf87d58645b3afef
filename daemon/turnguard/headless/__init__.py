"""Transcripts that agents write, replayed through the guards; agents that run without a person, guarded."""
