#!/usr/bin/env bash
# Writes a file as the action's one comment of the pull request: the comment that the last run wrote is replaced.
set -euo pipefail

marker='<!-- fleetwright -->'
body=$(mktemp)
{ echo "$marker"; cat "$1"; } > "$body"
comments=repos/$REPOSITORY/issues/$NUMBER/comments
earlier=$(gh api --paginate "$comments" --jq ".[] | select(.body | startswith(\"$marker\")) | .id" | head -n 1)
if [ -n "$earlier" ]; then
  gh api --method PATCH "repos/$REPOSITORY/issues/comments/$earlier" -F body=@"$body" > /dev/null
else
  gh api --method POST "$comments" -F body=@"$body" > /dev/null
fi
