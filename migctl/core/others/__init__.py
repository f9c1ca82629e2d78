"""What is on the machine and is not ours: who holds a GPU, services, other controllers, other users."""
