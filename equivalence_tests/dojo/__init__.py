"""The dojo: lessons and katas of manual backprop, checked by the kit."""
