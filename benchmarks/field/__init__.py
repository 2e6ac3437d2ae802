"""First contact of the doctor with public training scripts (docs/field.md)."""
