"""What keeps an account or a cluster from being served, found before a deployment fails on it and after it went well."""
