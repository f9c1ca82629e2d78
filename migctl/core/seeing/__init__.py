"""From readings to what is said of a running job."""
