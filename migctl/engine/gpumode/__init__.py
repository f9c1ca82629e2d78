"""The MIG mode of a GPU: changed on an idle GPU only, and who keeps it from being idle."""
