"""Edge: what runs a job, containers of an engine or plain processes, behind one protocol."""
