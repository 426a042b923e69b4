"""What a change to a MySQL-family server really costs, with its interval and the evidence."""
