require ["fileinto", "mailbox", "variables"];
if allof (
    header :is "X-Postbayes" "ham",
    header :matches "X-Postbayes-Label" ["newsletter", "notification"]
) {
    set :lower :upperfirst "folder" "${0}";
    fileinto :create "${folder}";
    stop;
}
