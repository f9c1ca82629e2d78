"""What the commands that look have found, as data: the engine fills these values, `render` draws them."""
