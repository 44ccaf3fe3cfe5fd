"""Searchers: who proposes trials. Events in, actions out, the whole state one JSON value."""
