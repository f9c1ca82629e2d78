"""The edge to Kubernetes: kubectl, what it prints as values, and its errors in words."""
