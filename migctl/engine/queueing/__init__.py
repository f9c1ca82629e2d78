"""The queue at work: what `up` leaves, the process that goes on with it, and each of its turns."""
