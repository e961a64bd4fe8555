"""What a configuration means, told to people: where plugins come from, what differs, what a field is."""
