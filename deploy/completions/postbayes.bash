# Written by `python scripts/reference` from the code.
_postbayes() {
    local current=${COMP_WORDS[COMP_CWORD]} words=
    COMPREPLY=()
    case ${COMP_WORDS[1]} in
        serve) words='--host --port --database-url --workers --help' ;;
        learn) words='--label --junk --index --profile --batch --sums --processes --dask --source --json --help' ;;
        classify) words='--explain --profile --url --json --help' ;;
        why) words='--explain --profile --json --help' ;;
        feedback) words='--label --id --forget --source --profile --url --json --help' ;;
        undo) words='--source --from --until --dry-run --confirm --profile --json --help' ;;
        fold) words='--profile --json --help' ;;
        prune) words='--max-messages --older-than --max-log-odds --dry-run --profile --json --help' ;;
        audit) words='--profile --json --help' ;;
        backup) words='--audit --json --help' ;;
        migrate) words=--help ;;
        figures) words='--profile --window --json --help' ;;
        teachers) words='--profile --window --json --help' ;;
        word) words='--profile --json --help' ;;
        evaluate) words='--index --ham --spam --limit --shuffle --folds --train-first --delay --feedback-first --feedback-share --noise --seed --months --try --report --resume --processes --json --jsonl --help' ;;
        lab) words='--target --model --smoothing --prior --columns --as --vocabulary --values --constant --variances --shrinkage --deviation --predict --predict-csv --test --folds --seed --alphas --report --json --help' ;;
        profiles) words='--create --rename --delete --yes --labels --spam-labels --kind --json --help' ;;
        policy) words='--profile --ham-cost --ham-threshold --quarantine-from --reject-from --reset --json --help' ;;
        lists) words='--profile --allow --deny --nats --expires --note --json --help' ;;
        keys) words='--right --profile --label --network --days --names-sources --json --help' ;;
        people) words='--role --profile --no-password --json --help' ;;
        correspondents) words='--profile --json --help' ;;
        events) words='--last --json --help' ;;
        imap) words='--once --url --profile --help' ;;
        forwarded) words='--label --sender --profile --url --help' ;;
        digest) words='--profile --to --hours --stdout --help' ;;
        export) words='--profile --with-ledger --without-words --json --help' ;;
        import) words='--profile --from --words --ham-label --spam-label --replace --yes --json --help' ;;
    esac
    if ((COMP_CWORD == 1)); then
        words='serve learn classify why feedback undo fold prune audit backup migrate figures teachers word evaluate lab profiles policy lists keys people correspondents events imap forwarded digest export import --help --version'
    elif [[ $current != -* ]]; then
        # Files, by `-o default`.
        return
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _postbayes postbayes
