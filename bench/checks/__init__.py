"""What checking costs: the drivers of the audit with all checks, beside the same drivers that check less or nothing."""
