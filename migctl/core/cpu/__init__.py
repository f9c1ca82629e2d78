"""The CPU side: which cores there are, which job gets which, and how many workers they carry."""
