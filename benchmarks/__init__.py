"""What is measured rather than proved: a folder of a checkout, not of the wheel."""
