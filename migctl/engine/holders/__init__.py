"""Who keeps a GPU or the machine to himself, and how long one waits for that."""
