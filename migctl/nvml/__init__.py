"""The GPUs: pynvml's functions as the one seam, the driver over them, and a simulated machine."""
