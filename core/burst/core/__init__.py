"""The words, states, records, files and stores that every other part of burst shares."""
