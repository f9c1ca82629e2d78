"""The answer to `check`: every precondition of `up`, each with its next step."""
