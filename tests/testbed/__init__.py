"""What people see of the testbed without Go."""
