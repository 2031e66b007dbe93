"""The Kubernetes API over HTTPS: urllib3 and msgspec, no client library, so that a cold start stays short."""
