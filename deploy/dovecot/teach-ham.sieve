require ["vnd.dovecot.pipe", "copy", "imapsieve", "environment", "variables"];
if environment :is "imap.mailbox" ["Trash", "Junk"] {
    stop;
}
if environment :matches "imap.user" "*" {
    set "user" "${1}";
}
pipe :copy :try "postbayes-teach" ["ham", "${user}"];
