"""What the commands do: the order of effects over the edges."""
