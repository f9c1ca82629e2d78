"""More work than room: whose turn it is, what starts now and where, and how it will go on."""
