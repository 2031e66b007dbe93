"""Settings, names, triggers and roles of an installation: CloudFormation, the functions and the command share them."""
