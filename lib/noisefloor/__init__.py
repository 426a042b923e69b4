"""What a change to a MySQL-family server really costs, with evidence and a noise floor."""
