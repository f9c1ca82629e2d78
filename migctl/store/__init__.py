"""What migctl remembers: owner files, the truth beside hardware and labels, and an SQLite index that is rebuilt from them."""
