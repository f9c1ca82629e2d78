"""A first plan, proposed from what was seen of the machine and the folder."""
