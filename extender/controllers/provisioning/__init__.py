"""Ask an autoscaler for nodes by ProvisioningRequests (docs/how-to/provisioning.md)."""
