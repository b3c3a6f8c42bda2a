"""What people see of the test bed: without Go, and as the demo that lives."""
