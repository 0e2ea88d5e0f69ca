# Written by `python scripts/reference` from the code.
_postbayes() {
    local current=${COMP_WORDS[COMP_CWORD]} words=--help actions=
    COMPREPLY=()
    case ${COMP_WORDS[*]:1:2} in
        'serve '*) words='--host --port --database-url --workers --help' ;;
        'learn '*) words='--label --junk --index --profile --batch --sums --processes --dask --source --json --help' ;;
        'classify '*) words='--explain --profile --url --json --help' ;;
        'why '*) words='--explain --profile --json --help' ;;
        'feedback '*) words='--label --id --forget --source --profile --url --json --help' ;;
        'undo '*) words='--source --from --until --dry-run --confirm --profile --json --help' ;;
        'fold '*) words='--profile --json --help' ;;
        'prune '*) words='--max-messages --older-than --max-log-odds --dry-run --profile --json --help' ;;
        'audit '*) words='--profile --json --help' ;;
        'backup '*) words='--audit --json --help' ;;
        'migrate '*) words=--help ;;
        'figures '*) words='--profile --window --json --help' ;;
        'teachers '*) words='--profile --window --json --help' ;;
        'word '*) words='--profile --json --help' ;;
        'evaluate '*) words='--index --ham --spam --limit --shuffle --folds --train-first --delay --feedback-first --feedback-share --noise --seed --months --try --report --resume --processes --json --jsonl --help' ;;
        'lab '*) words='--target --model --smoothing --prior --columns --as --vocabulary --values --constant --variances --shrinkage --deviation --predict --predict-csv --test --folds --seed --alphas --report --json --help' ;;
        'profiles list') words='--json --help' ;;
        'profiles create') words='--labels --spam-labels --kind --json --help' ;;
        'profiles rename') words='--json --help' ;;
        'profiles delete') words='--yes --json --help' ;;
        'profiles '*) actions='list create rename delete' ;;
        'policy '*) words='--profile --ham-cost --ham-threshold --quarantine-from --reject-from --reset --json --help' ;;
        'lists list') words='--profile --json --help' ;;
        'lists add') words='--allow --deny --nats --expires --note --profile --help' ;;
        'lists remove') words='--profile --help' ;;
        'lists import') words='--profile --help' ;;
        'lists '*) actions='list add remove import' ;;
        'keys list') words='--json --help' ;;
        'keys create') words='--right --profile --label --network --days --names-sources --json --help' ;;
        'keys revoke') words=--help ;;
        'keys '*) actions='list create revoke' ;;
        'people list') words='--json --help' ;;
        'people add') words='--role --profile --no-password --help' ;;
        'people password') words=--help ;;
        'people remove') words=--help ;;
        'people '*) actions='list add password remove' ;;
        'correspondents list') words='--profile --json --help' ;;
        'correspondents forget') words='--profile --json --help' ;;
        'correspondents '*) actions='list forget' ;;
        'events '*) words='--last --json --help' ;;
        'imap '*) words='--once --url --profile --help' ;;
        'forwarded '*) words='--label --sender --profile --url --help' ;;
        'digest '*) words='--profile --to --hours --stdout --help' ;;
        'export '*) words='--profile --with-ledger --without-words --json --help' ;;
        'import '*) words='--profile --from --words --ham-label --spam-label --replace --yes --json --help' ;;
    esac
    if ((COMP_CWORD == 1)); then
        words='serve learn classify why feedback undo fold prune audit backup migrate figures teachers word evaluate lab profiles policy lists keys people correspondents events imap forwarded digest export import --help --version'
    elif [[ $current != -* ]]; then
        # Without actions, files, by `-o default`.
        words=$actions
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _postbayes postbayes
