#!/usr/bin/env bash
# Runs `validate` and `diff` on the action's inputs. The last step of the action exits with the code that this notes.
set -uo pipefail

program=${FLEETWRIGHT:-}
if [ -z "$program" ]; then
  python -m venv "$RUNNER_TEMP/fleetwright" && "$RUNNER_TEMP/fleetwright/bin/pip" install --quiet "$INPUT_PACKAGE" || exit 2
  program=$RUNNER_TEMP/fleetwright/bin/fleetwright
fi

# Inputs are lists with spaces.
read -ra files <<< "$INPUT_FILES"
read -ra before <<< "$INPUT_FROM"
read -ra shared <<< "$INPUT_SHARED"
read -ra conditions <<< "$INPUT_FAIL_ON"
given=() catalog=() refused=()
for file in "${files[@]}" "${shared[@]}"; do given+=(-f "$file"); done
[ -n "$INPUT_CATALOG" ] && catalog=(--catalog "$INPUT_CATALOG")

"$program" validate "${given[@]}" "${catalog[@]}" -o sarif > "$INPUT_SARIF"
code=$?
echo "sarif=$INPUT_SARIF" >> "$GITHUB_OUTPUT"

if [ -n "$INPUT_FROM" ]; then
  both=()
  for file in "${shared[@]}"; do both+=(-f "$file"); done
  for condition in "${conditions[@]}"; do refused+=(--fail-on "$condition"); done
  "$program" diff --from "${before[@]}" --to "${files[@]}" "${both[@]}" "${catalog[@]}" "${refused[@]}" -o markdown > fleetwright-diff.md
  differs=$?
  cat fleetwright-diff.md >> "$GITHUB_STEP_SUMMARY"
  echo "difference=fleetwright-diff.md" >> "$GITHUB_OUTPUT"
  [ "$code" -eq 0 ] && code=$differs
fi
echo "code=$code" >> "$GITHUB_OUTPUT"
