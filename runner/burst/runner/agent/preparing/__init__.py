"""From a record to something that can be started: code, environment, folders."""
