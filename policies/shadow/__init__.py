"""Shadow: what a policy would have chosen for requests that were served, and what that would have been worth."""
